SELECT name AS node, boot_id, strftime('%Y-%m-%dT%H:%M:%fZ', started_ns / 1e9, 'unixepoch') AS started_utc,
       printf('%.3f', (clock_offset_ns - MIN(clock_offset_ns) OVER ()) / 1e6) AS offset_ms_over_the_least
FROM node ORDER BY name;
