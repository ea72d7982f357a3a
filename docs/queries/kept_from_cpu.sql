SELECT p.rank, w.by_name AS program, COUNT(*) AS rows, printf('%.2f', SUM(w.by_waited_ns) / 1e9) AS seconds_at_least
FROM wait_span w JOIN process p USING (node_id, pid)
WHERE p.rank IS NOT NULL AND w.kind = 'runnable' AND w.by_name IS NOT NULL
GROUP BY p.rank, w.by_name ORDER BY SUM(w.by_waited_ns) DESC LIMIT 6;
