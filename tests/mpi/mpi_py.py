#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""An MPI program in Python: mpi4py brings MPI_THREAD_MULTIPLE, pickled objects whose size only the receiver's probe
tells, persistent requests, threads that share a communicator, and one-sided access. Every payload is checked; prints
the lines that proof.py reads."""
import os
import random
import sys
import threading

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
seed = int(os.environ.get("SEED", "0"), 0)
sent = received = 0
lock = threading.Lock()
SIZES = (0, 1, 63, 64, 4096, 8900, 65536, 300001, 1048577)


def say(line):
    """In one write: the lines of all ranks go to one place."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def pattern(src, dst, what, length):
    return bytearray(random.Random("%d/%d/%d/%s" % (seed, src, dst, what)).randbytes(length))


def count(tx, rx):
    global sent, received
    with lock:
        sent += tx
        received += rx


def check(good, what):
    if not good:
        say("FAIL %s: rank %d" % (what, rank))
        comm.Abort(1)


def buffers():
    """Rings of buffers of many sizes, in blocking, immediate and persistent calls."""
    right, left = (rank + 1) % size, (rank - 1) % size
    for length in SIZES:
        out, into = pattern(rank, right, length, length), bytearray(length)
        comm.Sendrecv(out, right, 1, into, left, 1)
        check(into == pattern(left, rank, length, length), "Sendrecv of %d bytes" % length)
        reqs = [comm.Irecv(into, left, 2), comm.Isend(out, right, 2)]
        MPI.Request.Waitall(reqs)
        check(into == pattern(left, rank, length, length), "Isend of %d bytes" % length)
        count(2 * length, 2 * length)
    out, into = bytearray(5000), bytearray(5000)
    reqs = [comm.Recv_init(into, left, 3), comm.Send_init(out, right, 3)]
    for turn in range(10):
        out[:] = pattern(rank, right, turn, len(out))
        MPI.Prequest.Startall(reqs)
        MPI.Prequest.Waitall(reqs)
        check(into == pattern(left, rank, turn, len(into)), "persistent request")
        count(len(out), len(into))
    for req in reqs:
        req.Free()


def objects():
    """Pickles from everybody to everybody, matched by probe in any order."""
    reqs = []  # whether a blocking send of this size waits for its receive is the provider's choice
    for to in range(size):
        if to != rank:
            body = {"from": rank, "body": bytes(pattern(rank, to, "object", 3000 * (rank + 1)))}
            reqs.append(comm.isend(body, to, 10 + rank))
            count(len(body["body"]), 0)
    for _ in range(size - 1):
        status = MPI.Status()
        message = comm.mprobe(status=status)
        body = message.recv()
        src = status.Get_source()
        check(body["from"] == src and body["body"] == pattern(src, rank, "object", 3000 * (src + 1)), "object")
        count(0, len(body["body"]))
    MPI.Request.waitall(reqs)
    word = comm.bcast("x" * 200000 if rank == 0 else None)
    check(word == "x" * 200000, "bcast")
    check(comm.allgather(rank * rank) == [r * r for r in range(size)], "allgather")
    check(comm.allreduce(rank + 1) == size * (size + 1) // 2, "allreduce")
    check(comm.alltoall([(rank, to) for to in range(size)]) == [(r, rank) for r in range(size)], "alltoall")


def threads():
    """Three threads of each rank talk to their like, all at once."""
    right, left = (rank + 1) % size, (rank - 1) % size

    def work(tag):
        for turn in range(30):
            length = (turn * 997 * tag) % 40000
            into = bytearray(length)
            comm.Sendrecv(pattern(rank, right, (tag, turn), length), right, tag, into, left, tag)
            check(into == pattern(left, rank, (tag, turn), length), "thread %d" % tag)
            count(length, length)

    check(MPI.Query_thread() == MPI.THREAD_MULTIPLE, "MPI_THREAD_MULTIPLE")
    workers = [threading.Thread(target=work, args=(100 + i,)) for i in range(3)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()


def window():
    """One-sided: everybody writes a piece into everybody's memory and reads it back."""
    piece = 10000
    memory = bytearray(piece * size)  # not Win.Allocate(): Open MPI shares that memory within a host
    win = MPI.Win.Create(memory, comm=comm)
    win.Fence()
    for to in range(size):
        win.Put(pattern(rank, to, "put", piece), to, (rank * piece, piece, MPI.BYTE))
        count(piece * (to != rank), 0)  # the target's adapter counts no plain writes
    win.Fence()
    for src in range(size):
        check(memory[src * piece:(src + 1) * piece] == pattern(src, rank, "put", piece), "Put from %d" % src)
    back = bytearray(piece)
    win.Lock((rank + 1) % size)
    win.Get(back, (rank + 1) % size, (rank * piece, piece, MPI.BYTE))
    win.Unlock((rank + 1) % size)
    check(back == pattern(rank, (rank + 1) % size, "put", piece), "Get")
    win.Fence()
    win.Free()


# One-sided access takes a window component that knows threads; only the run over the one-sided transport has one.
for part in (window,) if "window" in sys.argv else (buffers, objects, threads):
    start = MPI.Wtime()
    part()
    comm.Barrier()
    if rank == 0:
        say("  ok %-12s %8.1f ms" % (part.__name__, (MPI.Wtime() - start) * 1e3))
say("payload: rank=%d pid=%d tx=%d rx=%d" % (rank, os.getpid(), sent, received))
sys.exit(0)
