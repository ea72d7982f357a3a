SELECT printf('0x%016x', comm_id_hash) AS communicator, seq, op, COUNT(*) AS calls,
       printf('%.1f', (MAX(timestamp_ns) - MIN(timestamp_ns)) / 1e6) AS arrivals_ms,
       printf('%.1f', (MAX(timestamp_ns + duration_ns) - MAX(timestamp_ns)) / 1e6) AS transfer_ms
FROM nccl_events
WHERE seq IS NOT NULL AND comm_id_hash IS NOT NULL AND op NOT IN ('SEND', 'RECV')
GROUP BY comm_id_hash, seq, op ORDER BY MAX(timestamp_ns + duration_ns) - MAX(timestamp_ns) DESC LIMIT 10;
