WITH instance AS (
  SELECT comm_id_hash, seq, MAX(timestamp_ns) AS last_ns FROM nccl_events
  WHERE seq IS NOT NULL AND comm_id_hash IS NOT NULL AND op NOT IN ('SEND', 'RECV') GROUP BY comm_id_hash, seq)
SELECT c.rank, COUNT(*) AS calls,
       printf('%.2f', SUM(i.last_ns - c.timestamp_ns) / 1e9) AS s_waiting_for_the_last,
       printf('%.2f', SUM(c.timestamp_ns + c.duration_ns - i.last_ns) / 1e9) AS s_in_transfers
FROM nccl_events c JOIN instance i USING (comm_id_hash, seq)
WHERE c.op NOT IN ('SEND', 'RECV') GROUP BY c.rank ORDER BY c.rank;
