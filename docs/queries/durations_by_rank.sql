SELECT rank, COUNT(*) AS calls, printf('%.1f', AVG(duration_ns) / 1e6) AS mean_ms, printf('%.1f', MAX(duration_ns) / 1e6) AS max_ms
FROM nccl_events WHERE op = 'ALL_REDUCE' GROUP BY rank ORDER BY rank;
