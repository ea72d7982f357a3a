SELECT n.name AS node, c.name AS counter, c.detail, MAX(c.value) - MIN(c.value) AS rise
FROM (SELECT node_id, name, detail, value FROM host_sample WHERE name NOT LIKE '%\_now' ESCAPE '\'
      UNION ALL SELECT node_id, name, device || '/' || port, value FROM port_counter) c
JOIN node n USING (node_id) GROUP BY c.node_id, c.name, c.detail HAVING rise > 0 ORDER BY c.name, rise DESC;
