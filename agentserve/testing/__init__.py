"""Stand-ins for the parts that are hard to make fail: a scripted computer, a fake worker, a
scripted program host.

Worker and host are real servers, on loopback and on a Unix socket, so that what is tested of the
code around them (lost connections, restarts, time limits) really happens. Import what you need from
its own module: this package loads none of them.
"""
