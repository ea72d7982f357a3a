SELECT n.name AS node, d.reason, CASE d.incoming WHEN 1 THEN 'in' ELSE 'out' END AS direction, c.rank,
       SUM(d.packets) AS packets, SUM(d.bytes) AS bytes
FROM packet_drop d JOIN node n USING (node_id) LEFT JOIN connection c USING (node_id, cookie)
GROUP BY n.name, d.reason, d.incoming, c.rank ORDER BY packets DESC LIMIT 10;
