"""Starts, observes and ends the measured processes. Each is ended by its process id."""

import os
import re
import shutil
import signal
import socket
import subprocess
import time

TICK = os.sysconf("SC_CLK_TCK")
SMALL = '{"id":"item-0001","name":"Example","price":1250,"currency":"EUR","tags":["a","b"],"stock":7}'


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for_port(port, process=None, seconds=15):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process is not None and process.poll() is not None:
            raise SystemExit(f"bench: {process.args[0]} ended with status {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), 0.2).close()
            return
        except OSError:
            time.sleep(0.02)
    raise SystemExit(f"bench: nothing listens on port {port}")


class Server:
    """One server program with its child processes."""

    def __init__(self, name, arguments, port, directory, env=None, seconds=15):
        self.name, self.port = name, port
        log = open(os.path.join(directory, f"{name}.log"), "ab")
        self.process = subprocess.Popen(arguments, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=env)
        wait_for_port(port, self.process, seconds)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self):
        return self.process.pid

    def cpu(self):
        return sum(cpu_seconds(pid) for pid in family(self.pid))

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Foreign:
    """A server that other code starts and stops. Only its process id is known."""

    def __init__(self, name, pid, port):
        self.name, self.pid, self.port = name, pid, port

    def cpu(self):
        return cpu_seconds(self.pid)


def family(pid):
    """Returns a process and all its descendants."""
    found, queue = [], [pid]
    while queue:
        current = queue.pop()
        found.append(current)
        try:
            for task in os.listdir(f"/proc/{current}/task"):
                with open(f"/proc/{current}/task/{task}/children") as children:
                    queue.extend(int(child) for child in children.read().split())
        except OSError:
            pass
    return found


def cpu_seconds(pid):
    """Returns user and system time of a process, without its ended children."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK
    except OSError:
        return 0.0


def is_alive(pid):
    """Returns whether a process still runs. A zombie does not count as running."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def memory(pid):
    """Returns anonymous and resident memory in MiB."""
    with open(f"/proc/{pid}/smaps_rollup") as rollup:
        text = rollup.read()
    value = lambda name: int(re.search(rf"^{name}:\s+(\d+) kB", text, re.M).group(1)) / 1024
    return value("Anonymous"), value("Rss")


def nginx(name, directory, port, body, workers="auto"):
    """Starts an nginx whose http block is `body`."""
    path = os.path.join(directory, f"{name}.conf")
    user = "user root;" if os.geteuid() == 0 else ""
    with open(path, "w") as file:
        file.write(
            f"""{user} worker_processes {workers}; daemon off; pid {directory}/{name}.pid;
error_log {directory}/{name}.error.log; worker_rlimit_nofile 20000;
events {{ worker_connections 8192; }}
http {{
  access_log off; keepalive_timeout 600s; keepalive_requests 100000000; tcp_nopush on; sendfile on;
  client_body_temp_path {directory}/{name}-body; proxy_temp_path {directory}/{name}-proxy;
  fastcgi_temp_path {directory}/{name}-f; uwsgi_temp_path {directory}/{name}-u; scgi_temp_path {directory}/{name}-s;
{body}
}}
"""
        )
    return Server(name, [shutil.which("nginx") or "/usr/sbin/nginx", "-e", f"{directory}/{name}.error.log", "-c", path],
                  port, directory)


def upstream(directory):
    """Starts an nginx that answers a small JSON text from memory."""
    port = free_port()
    return nginx("upstream", directory, port, f"""
  server {{ listen 127.0.0.1:{port}; location / {{ default_type application/json; return 200 '{SMALL}'; }} }}""")


def apache(directory, port, upstream, sandbox, secret):
    """Starts an Apache with mod_auth_openidc in front of a static file and of a reverse proxy."""
    path = os.path.join(directory, "apache.conf")
    modules = "/usr/lib/apache2/modules"
    names = ["mpm_event", "authn_core", "authz_core", "authz_user", "dir", "mime", "proxy", "proxy_http", "auth_openidc"]
    loads = "\n".join(f"LoadModule {name}_module {modules}/mod_{name}.so" for name in names)
    user = "User www-data\nGroup www-data" if os.geteuid() == 0 else ""
    with open(path, "w") as file:
        file.write(
            f"""ServerRoot {directory}
ServerName 127.0.0.1
DefaultRuntimeDir {directory}
PidFile {directory}/apache.pid
Listen 127.0.0.1:{port}
{loads}
{user}
ErrorLog {directory}/apache.error.log
LogLevel warn
TypesConfig /etc/mime.types
KeepAlive On
MaxKeepAliveRequests 0
KeepAliveTimeout 600
StartServers 2
ServerLimit 4
ThreadsPerChild 64
MaxRequestWorkers 256
DocumentRoot {directory}/static
OIDCProviderMetadataURL {sandbox}/oidc/.well-known/openid-configuration
OIDCClientID web
OIDCClientSecret {secret}
OIDCProviderTokenEndpointAuth client_secret_basic
OIDCRedirectURI http://127.0.0.1:{port}/redirect_uri
OIDCCryptoPassphrase {secret}
OIDCScope "openid"
OIDCPKCEMethod S256
OIDCSessionInactivityTimeout 36000
ProxyPass /proxied/ {upstream}/ enablereuse=on
<Location />
  AuthType openid-connect
  Require valid-user
</Location>
"""
        )
    return Server("apache", ["/usr/sbin/apache2", "-d", directory, "-f", path, "-D", "FOREGROUND"], port, directory)
