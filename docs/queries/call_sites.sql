SELECT COUNT(*) AS calls, printf('%.1f', SUM(c.duration_ns) / 1e9) AS seconds, c.op,
       replace(s.frames, char(10), ' < ') AS frames
FROM nccl_events c JOIN stack s USING (stack_id)
GROUP BY c.op, c.stack_id ORDER BY SUM(c.duration_ns) DESC LIMIT 5;
