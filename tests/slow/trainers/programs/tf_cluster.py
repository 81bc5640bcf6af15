"""Run a program in several processes, as the workers of one TensorFlow cluster.

Arguments: PROCESSES PROGRAM ARGUMENTS…
"""

import json
import os
import socket
import subprocess
import sys

processes, program = int(sys.argv[1]), sys.argv[2:]

sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(processes)]
addresses = ["{}:{}".format(*one.getsockname()) for one in sockets]
for one in sockets:
    one.close()

workers = []
for index in range(processes):
    config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
    environment = {**os.environ, "TF_CONFIG": json.dumps(config)}
    workers.append(subprocess.Popen([sys.executable, *program], env=environment))
sys.exit(max(worker.wait() for worker in workers))
