"""nginx, Caddy, HAProxy and Apache with the recipe files of deploy/proxy and deploy/forward-auth.

A recipe is a list of files. Each placeholder gets its value, and the line with @BROKER@ is repeated for each replica, as the
README describes. `edits` are `(file, pattern, replacement)`. An edit that changes nothing is an error of the test.
"""

import functools
import os
import re
import shutil
import subprocess

from .calls import call
from .waiting import GaveUp, wait_for
from .wire import ROOT, free_port

os.environ["PATH"] += ":/usr/sbin:/sbin"
SERVERS = ("nginx", "caddy", "haproxy", "apache")
MODULES = "/usr/lib/apache2/modules"
APACHE = "mpm_event authz_core headers alias asis lua setenvif slotmem_shm proxy proxy_http proxy_balancer lbmethod_byrequests".split()
NGINX = """load_module /usr/lib/nginx/modules/ngx_http_headers_more_filter_module.so;
{user}daemon off;
worker_processes 1;
pid {folder}/pid;
error_log stderr info;
events {{ worker_connections 512; }}
http {{
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    access_log off;
{includes}
}}
"""


def missing():
    """The names of missing server programs."""
    return [name for name in SERVERS if not shutil.which({"apache": "apache2"}.get(name, name))]


# The edits of deploy/proxy's files for checks: the commented lines for several replicas are made active, with a shorter
# interval.
CHECKS = {
    "caddy": [("Caddyfile", r"^\t\t# (health_|\tHost|\})", r"\t\t\1"), ("Caddyfile", "health_interval 2s", "health_interval 200ms")],
    "haproxy": [("haproxy.cfg", r"^    # (option httpchk|timeout check|default-server )", r"    \1"), ("haproxy.cfg", "inter 2s", "inter 200ms")],
}
# The servers that each case has started.
SERVING = {}


def serving(function):
    """Lets a case end its servers itself. Otherwise the signal that ends them together with their thread would leave workers of
    nginx and Apache behind.
    """

    @functools.wraps(function)
    def run(case):
        try:
            function(case)
        finally:
            servers = SERVING.pop(case, [])
            for server in servers:
                server.process.terminate()
            for server in servers:
                server.stop()

    return run


class Recipe:
    """A recipe's folder, with its files filled in."""

    def __init__(self, case, server, files, values, replicas=("127.0.0.1:1",), edits=()):
        self.case, self.server, self.edits = case, server, list(edits)
        self.port = values.get("port") or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        number = len(list(case.folder.glob(f"{server}-*/")))
        self.folder = case.folder / f"{server}-{number}"
        self.log = f"{server}-{number}.log"
        self.folder.mkdir()
        # Apache's workers give up root, and have to read their files.
        for folder in (self.folder, case.folder, case.folder.parent):
            folder.chmod(0o755)
        self.replicas = replicas
        self.values = {
            "LISTEN": f"127.0.0.1:{self.port}", "NAME": "localhost", "SITE": self.url, "FOLDER": self.folder,
            "LOG": self.folder / "access.log", "TIMEOUT": 2, "ORIGIN": "https://app.example.com",
            "CREDENTIAL_FILE": self.folder / "credential"} | values
        for source, target in files:
            self.write(source, self.folder / target)
        if self.edits:
            raise GaveUp(f"edits that change nothing: {self.edits}")
        credential = self.values.get("CREDENTIAL", "none")
        (self.folder / "credential").write_text(
            f'proxy_set_header X-Coatcheck-Backend "{credential}";\n' if server == "nginx" else f"{credential}\n")

    def write(self, source, target):
        text = (ROOT / "deploy" / source).read_text()
        for edit in list(self.edits):
            file, pattern, replacement = edit
            if file == source:
                changed = re.sub(pattern, replacement, text, flags=re.MULTILINE)
                if changed != text:
                    self.edits.remove(edit)
                text = changed
        lines = []
        for line in text.splitlines(keepends=True):
            # A line of code outside a list of replicas gets the first replica.
            replicas = self.replicas if "@BROKER@" in line and not line.lstrip().startswith(("#", "--")) else self.replicas[:1]
            for number, replica in enumerate(replicas, 1):
                lines.append(line.replace("@BROKER@", replica).replace("coatcheck1", f"coatcheck{number}"))
        text = re.sub(r"@([A-Z_]+)@", lambda found: str(self.values[found[1]]), "".join(lines))
        target.parent.mkdir(exist_ok=True)
        target.write_text(text)

    # -- the servers

    def start(self):
        (self.folder / "access.log").touch()
        command, environment = getattr(self, self.server)()
        self.process = self.case.start(command, self.log, environment)
        SERVING.setdefault(self.case, []).append(self)
        if not wait_for(20, lambda: call(self.url + "/", seconds=10).status):
            raise GaveUp(f"{self.server} did not start: {(self.case.folder / self.log).read_text()[-600:]}")
        return self

    def stop(self):
        """Ends the server and its workers."""
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def nginx(self):
        includes = "\n".join(f"    include {path};" for path in sorted(self.folder.glob("*.conf")) if not path.name.startswith("nginx-"))
        main = self.folder / "main"
        main.write_text(NGINX.format(folder=self.folder, includes=includes, user="user root;\n" if os.getuid() == 0 else ""))
        return ["nginx", "-e", "stderr", "-c", str(main)], None

    def caddy(self):
        file = self.folder / "Caddyfile"
        file.write_text("{\n\tadmin off\n}\n" + file.read_text())
        home = {name: str(self.folder) for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}
        return ["caddy", "run", "--adapter", "caddyfile", "--config", str(file)], home | {
            "COATCHECK_CREDENTIAL": str(self.values.get("CREDENTIAL", "none"))}

    def haproxy(self):
        return ["haproxy", "-db", "-f", str(self.folder / "haproxy.cfg")], None

    def apache(self):
        lines = [f"LoadModule {name}_module {MODULES}/mod_{name}.so" for name in APACHE]
        lines += [
            f"ServerRoot {self.folder}", "ServerName localhost", f"PidFile {self.folder}/pid", f"DefaultRuntimeDir {self.folder}",
            "ErrorLog /dev/stderr", "StartServers 1"]
        if os.getuid() == 0:
            lines += ["User www-data", "Group www-data"]
        main = self.folder / "main"
        main.write_text("\n".join(lines) + "\n" + (self.folder / "apache.conf").read_text())
        return ["apache2", "-d", str(self.folder), "-f", str(main), "-D", "FOREGROUND"], None


PROXY = {
    "nginx": ["nginx.conf"], "caddy": ["Caddyfile"], "haproxy": ["haproxy.cfg", "away.http"], "apache": ["apache.conf", "away.asis"]}
FORWARD_AUTH = {
    "nginx": ["nginx.conf", "nginx-http.conf", "nginx-gate.conf", "nginx-service.conf"], "caddy": ["Caddyfile"], "haproxy": ["haproxy.cfg", "haproxy.lua"], "apache": ["apache.conf", "apache.lua"]}


def proxy(case, server, replicas, edits=(), **values):
    """A recipe of deploy/proxy in front of these replicas."""
    files = [(f"proxy/{name}", name) for name in PROXY[server]]
    edits = [(f"proxy/{file}", pattern, replacement) for file, pattern, replacement in edits]
    return Recipe(case, server, files, values, replicas, edits).start()


def forward_auth(case, server, brokers, service, edits=(), **values):
    """A recipe of deploy/forward-auth in front of a service. The recipe asks these brokers."""
    files = [(f"forward-auth/{name}", name) for name in FORWARD_AUTH[server]]
    edits = [(f"forward-auth/{file}", pattern, replacement) for file, pattern, replacement in edits]
    return Recipe(case, server, files, {"UPSTREAM": service} | values, brokers, edits).start()
