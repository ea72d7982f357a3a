WITH arrivals AS (
  SELECT rank, timestamp_ns,
         row_number() OVER (PARTITION BY comm_id_hash, seq ORDER BY timestamp_ns DESC) AS position,
         timestamp_ns - lead(timestamp_ns) OVER (PARTITION BY comm_id_hash, seq ORDER BY timestamp_ns DESC) AS behind_ns
  FROM nccl_events
  WHERE seq IS NOT NULL AND comm_id_hash IS NOT NULL AND op NOT IN ('SEND', 'RECV'))
SELECT rank, COUNT(*) AS times_last, printf('%.2f', AVG(behind_ns) / 1e6) AS mean_ms_behind_the_next,
       printf('%.1f', MAX(behind_ns) / 1e6) AS max_ms
FROM arrivals WHERE position = 1 GROUP BY rank ORDER BY times_last DESC;
