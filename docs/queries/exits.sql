SELECT n.name AS node, p.rank, p.pid, p.exit_code, p.exit_signal, p.oom_killed,
       strftime('%H:%M:%f', p.exit_ns / 1e9, 'unixepoch') AS exited_utc
FROM process p JOIN node n USING (node_id) WHERE p.rank IS NOT NULL ORDER BY p.exit_ns;
