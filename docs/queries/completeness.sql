SELECT n.name AS node, n.kernel, n.ended_ns IS NOT NULL AS ended_cleanly,
       COALESCE(n.missing_evidence, '') AS missing_evidence,
       COALESCE((SELECT group_concat(l.source || ' ' || l.count, ', ') FROM loss l WHERE l.node_id = n.node_id), '') AS lost
FROM node n ORDER BY n.name;
