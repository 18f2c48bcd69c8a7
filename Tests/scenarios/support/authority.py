"""A certificate authority of one case, in its folder, with the certificates that it has signed."""

import base64
import hashlib
import ssl
import subprocess


class Authority:
    """A root, and certificates that it has signed. Each certificate is `NAME.pem` with `NAME.key`."""

    def __init__(self, case, name="root"):
        self.folder, self.name = case.folder, name
        self.openssl("req", "-x509", *self.key(name), "-days", "2", "-subj", f"/CN={name}", "-out", f"{name}.pem")

    def openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True)

    @staticmethod
    def key(name):
        return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key")

    def sign(self, name, names="DNS:client.example", days=30):
        self.openssl("req", *self.key(name), "-subj", f"/CN={name}", "-out", f"{name}.csr")
        (self.folder / f"{name}.ext").write_text(f"subjectAltName={names}\n")
        self.openssl(
            "x509", "-req", "-in", f"{name}.csr", "-CA", f"{self.name}.pem", "-CAkey", f"{self.name}.key", "-CAcreateserial",
            "-days", str(days), "-extfile", f"{name}.ext", "-out", f"{name}.pem")
        (self.folder / f"{name}.key").chmod(0o600)
        return name

    def file(self, name):
        return str(self.folder / name)

    def thumbprint(self, name):
        der = ssl.PEM_cert_to_DER_cert((self.folder / f"{name}.pem").read_text())
        return base64.urlsafe_b64encode(hashlib.sha256(der).digest()).decode().rstrip("=")

    def context(self, name=None):
        """Returns the TLS context of a client that trusts the root. With a name, it uses this certificate."""
        context = ssl.create_default_context(cafile=self.file(f"{self.name}.pem"))
        if name:
            context.load_cert_chain(self.file(f"{name}.pem"), self.file(f"{name}.key"))
        return context
