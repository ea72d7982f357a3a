SELECT n.name AS node, h.name AS counter, h.detail, MAX(h.value) - MIN(h.value) AS rise
FROM host_sample h JOIN node n USING (node_id) WHERE h.name NOT LIKE '%\_now' ESCAPE '\'
GROUP BY h.node_id, h.name, h.detail HAVING rise > 0 ORDER BY h.name, rise DESC;
