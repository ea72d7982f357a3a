# SPDX-License-Identifier: Apache-2.0
"""Socket attribution from each node's recording alone, checked against the other ends' recordings."""

import pathlib
import shutil
import tempfile

from lab import LabRun
from stalltrace import Case

# The progress threads' connections; the others belong to the bootstrap.
DATA = """
SELECT c.saddr, c.sport, c.daddr, c.dport, c.rank, c.peer_rank, c.channel, c.comm_id_hash, c.pid,
       (SELECT SUM(bytes) FROM net_span s WHERE s.cookie = c.cookie) AS bytes
FROM connection c WHERE c.thread_name LIKE 'NCCL Progress%'
"""


class Attribution(Case):
    mixed_run = None

    @classmethod
    def mixed(cls):
        """One run for all tests that use it: three ranks, collectives and transfers, a sub-communicator."""
        if cls.mixed_run is None:
            folder = pathlib.Path(tempfile.mkdtemp(prefix="stalltrace-test-"))
            cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
            cls.mixed_run = LabRun(folder / "lab", "none", ranks=3, steps=40, more=("--plugin", "--", "--mix", "1"))
        return cls.mixed_run

    def test_every_data_connection_names_its_peer_and_communicator(self):
        self.need_root()
        lab = LabRun(self.folder / "lab", "none", ranks=4, steps=40, more=("--plugin",))
        rank_of_address = {node["address"]: node["rank"] for node in lab.truth["nodes"]}
        ends = {}
        for node, (saddr, sport, daddr, dport, rank, peer, channel, comm, pid, size) in lab.rows(DATA):
            self.assertEqual((rank, pid), (node["rank"], node["pid"]))
            ends[(saddr, sport, daddr, dport)] = (rank, peer, channel, comm, size)
        self.assertEqual(len(ends), 8, "a ring of four, both ends")
        for (saddr, sport, daddr, dport), (rank, peer, channel, comm, size) in ends.items():
            self.assertEqual(peer, rank_of_address[daddr])
            self.assertIn(abs(peer - rank), (1, 3), "a neighbour in the ring")
            other = ends[(daddr, dport, saddr, sport)]
            self.assertEqual(other[:2], (peer, rank), "the other end says the same")
            self.assertEqual((channel, other[3]), (0, comm))
            self.assertGreater(size, 0)
        known = {row for _, row in lab.rows("SELECT comm_id_hash FROM communicator WHERE nranks = 4")}
        self.assertEqual({(end[3],) for end in ends.values()}, known)

    def test_a_part_of_the_job_has_one_name_and_peers_of_the_job(self):
        """Ranks 0 and 2 also share a communicator made by a split, in which they are 0 and 1."""
        self.need_root()
        lab = self.mixed()
        parts = dict(row for node, row in lab.rows("""
            SELECT rank, comm_id_hash FROM communicator WHERE nranks = 2 AND parent_hash IS NOT NULL""")
                     if node["rank"] != 1)
        self.assertEqual(set(parts), {0, 1})
        self.assertEqual(parts[0], parts[1], "both members call it the same")
        ends = [(node["rank"], *row) for node, row in lab.rows(DATA) if row[7] == parts[0]]
        self.assertEqual(len(ends), 4, "two connections, both ends")
        for rank, *_, attributed_rank, peer, channel, _, _, _ in ends:
            self.assertEqual((attributed_rank, peer, channel), (rank, 2 - rank, 0))
        whole = {row for _, row in lab.rows("SELECT comm_id_hash FROM communicator WHERE nranks = 3")}
        for table in ("collective WHERE op = 'ALL_REDUCE'", "proxy_step"):
            named = {row for node, row in lab.rows(f"SELECT DISTINCT comm_id_hash FROM {table}") if node["rank"] != 1}
            self.assertEqual(named, whole | {(parts[0],)}, table)

    def test_connections_of_collectives_and_of_transfers_both_name_their_peer(self):
        """Both on one communicator: two ranks share one connection for the ring, which is one-way, and one for
        transfers each way.
        """
        self.need_root()
        lab = self.mixed()
        whole = {row for _, row in lab.rows("SELECT comm_id_hash FROM communicator WHERE nranks = 3")}
        self.assertEqual(len(whole), 1)
        both = {}
        for node, (_, _, daddr, _, _, peer, channel, comm, _, size) in lab.rows(DATA):
            if (comm,) in whole:
                self.assertGreater(size, 0)
                self.assertEqual(channel, 0)
                both.setdefault((node["rank"], peer, daddr), []).append(comm)
        address_of_rank = {node["rank"]: node["address"] for node in lab.truth["nodes"]}
        pairs = [(rank, peer, address_of_rank[peer]) for rank in range(3) for peer in range(3) if peer != rank]
        self.assertEqual({pair: len(ends) for pair, ends in both.items()}, dict.fromkeys(pairs, 3))

    def test_without_the_plugin_they_are_unknown(self):
        self.need_root()
        lab = LabRun(self.folder / "lab", "none", ranks=2, steps=5)
        rows = [row for _, row in lab.rows("SELECT peer_rank, channel, comm_id_hash FROM connection")]
        self.assertGreater(len(rows), 0)
        self.assertEqual(set(rows), {(None, None, None)})
