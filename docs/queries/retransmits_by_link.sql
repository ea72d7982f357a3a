SELECT a.rank AS from_rank, b.rank AS to_rank, a.saddr, a.daddr, COUNT(*) AS retransmits, SUM(t.len) AS bytes
FROM tcp_events t
JOIN connection a ON a.node_id = t.node_id AND a.cookie = t.cookie
LEFT JOIN connection b ON (b.saddr, b.sport, b.daddr, b.dport) = (a.daddr, a.dport, a.saddr, a.sport)
WHERE t.event = 'tcp_retransmit_skb'
GROUP BY from_rank, to_rank, a.saddr, a.daddr ORDER BY retransmits DESC LIMIT 10;
