# SPDX-License-Identifier: Apache-2.0
"""Virtual nodes without external tools: each rank unshares a network namespace and gets a TUN device there; a forwarder
for each node carries packets between them and can drop some. Needs /dev/net/tun and either root or user namespaces.
"""

import array
import ctypes
import fcntl
import os
import pathlib
import random
import signal
import socket
import struct

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454ca, 0x0001, 0x1000
SIOCSIFADDR, SIOCSIFNETMASK, SIOCSIFMTU, SIOCSIFFLAGS = 0x8916, 0x891c, 0x8922, 0x8914
IFF_UP, IFF_RUNNING = 0x1, 0x40
PR_SET_PDEATHSIG = 1
TUN = "/dev/net/tun"
# Must differ from the host's interface names: NCCL looks an interface up in /sys, which still shows the host's.
INTERFACE, MTU = "gpucheck0", 9000
LOSSY_NODE = 1


def address_of(node):
    return f"10.78.0.{node + 1}"


def unshare_network():
    """This process gets a network namespace of its own, in a user namespace where it may not have it otherwise."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(CLONE_NEWNET) == 0:
        return
    user, group = os.getuid(), os.getgid()
    if library.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare: " + os.strerror(ctypes.get_errno()))
    pathlib.Path("/proc/self/setgroups").write_text("deny")
    pathlib.Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    pathlib.Path("/proc/self/gid_map").write_text(f"0 {group} 1")


def configure(name, address=None):
    """Brings an interface up with ioctl(2) alone."""
    def request(control, number, payload):
        fcntl.ioctl(control, number, struct.pack("16s24s", name.encode(), payload))

    def ipv4(text):
        return struct.pack("HH4s", socket.AF_INET, 0, socket.inet_aton(text))

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        if address:
            request(control, SIOCSIFADDR, ipv4(address))
            request(control, SIOCSIFNETMASK, ipv4("255.255.255.0"))
            request(control, SIOCSIFMTU, struct.pack("i", MTU))
        request(control, SIOCSIFFLAGS, struct.pack("H", IFF_UP | IFF_RUNNING))


def enter(node):
    """Makes this process node `node`; returns its TUN device."""
    unshare_network()
    device = os.open(TUN, os.O_RDWR | os.O_CLOEXEC)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", INTERFACE.encode(), IFF_TUN | IFF_NO_PI))
    configure("lo")
    configure(INTERFACE, address_of(node))
    return device


def end_with(parent):
    """Makes this process end with its parent."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def send_descriptor(channel, descriptor):
    channel.sendmsg([b"d"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))])


def receive_descriptor(channel):
    """Returns None if the other end gave up, with its reason on standard error."""
    _, ancillary, _, _ = channel.recvmsg(1, socket.CMSG_SPACE(4))
    return array.array("i", ancillary[0][2])[0] if ancillary else None


def forward(node, devices, loss_file):
    """Forwards node `node`'s packets for ever; packets to LOSSY_NODE are dropped at the percentage in `loss_file`."""
    by_address = {socket.inet_aton(address_of(other)): device for other, device in enumerate(devices)}
    lossy = socket.inet_aton(address_of(LOSSY_NODE))
    percent, packets = 0.0, 0
    while True:
        packet = os.read(devices[node], 65536)
        packets += 1
        if packets % 64 == 1:
            percent = float(loss_file.read_text() or 0) if loss_file.exists() else 0.0
        target = packet[16:20]
        if packet[0] >> 4 != 4 or target not in by_address:
            continue
        if target == lossy and percent and random.random() * 100 < percent:
            continue
        try:
            os.write(by_address[target], packet)
        except OSError:
            pass  # that node has ended


def start_forwarders(devices, loss_file):
    """Starts a process for each node; returns their pids, for the caller to kill."""
    pids = []
    parent = os.getpid()
    for node in range(len(devices)):
        pid = os.fork()
        if pid == 0:
            try:
                end_with(parent)
                forward(node, devices, loss_file)
            finally:
                os._exit(0)
        pids.append(pid)
    return pids


def available():
    """None if virtual nodes can be made here, else the reason. Tested in a separate process."""
    if not os.path.exists(TUN):
        return f"{TUN} is missing"
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            enter(0)
        except OSError as error:
            os.write(write_end, str(error).encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        reason = pipe.read()
    os.waitpid(pid, 0)
    return reason or None
