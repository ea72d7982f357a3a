SELECT printf('0x%016x', comm_id_hash) AS communicator, MAX(nranks) AS ranks, COUNT(DISTINCT rank) AS recorded
FROM communicator WHERE comm_id_hash IS NOT NULL GROUP BY comm_id_hash;
