SELECT n.name AS node, c.rank, c.op, c.seq, c.pid,
       printf('%.1f', (COALESCE(n.ended_ns, (SELECT MAX(timestamp_ns) FROM host_sample h WHERE h.node_id = n.node_id))
                       - c.timestamp_ns) / 1e9) AS s_open
FROM collective c JOIN node n USING (node_id) WHERE c.completion = 'open' ORDER BY c.timestamp_ns LIMIT 20;
