# SPDX-License-Identifier: Apache-2.0
"""A job started by one command on this host, like torchrun's."""

from job import LIBRARIES, WORKLOAD
from processes import free_port, job_environment

SCRIPT = """
for rank in $(seq 0 $((WORLD_SIZE - 1))); do
  RANK=$rank LOCAL_RANK=$rank "$@" &
  pids="$pids $!"
done
echo $pids >"$PIDS"
for pid in $pids; do wait $pid || code=$?; done
exit ${code:-0}
"""


class Launcher:
    """`words` is the ranks' command; `pids()` returns their pids by rank once they run. `port`: where they meet; by default one that is
    free."""

    def __init__(self, folder, *arguments, ranks=2, program=WORKLOAD, port=None):
        self.pids_file = folder / "pids"
        environment = {**job_environment(ranks, port or free_port()), "LD_LIBRARY_PATH": LIBRARIES, "PIDS": self.pids_file}
        self.words = ["env", *(f"{name}={value}" for name, value in environment.items()),
                      "bash", "-c", SCRIPT, "ranks", program, *arguments]

    def pids(self):
        text = self.pids_file.read_text() if self.pids_file.exists() else ""
        return [int(pid) for pid in text.split()] if text.endswith("\n") else []
