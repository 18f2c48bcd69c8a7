"""The old SDK of an app: Authlib, a client from another project. It signs in at the provider itself, stores its tokens, and
refreshes them."""

import base64
import json
import os

from .calls import call
from .waiting import GaveUp

# The providers of the tests are on loopback.
os.environ.setdefault("AUTHLIB_INSECURE_TRANSPORT", "1")
import requests  # noqa: E402
from authlib.common.security import generate_token  # noqa: E402
from authlib.integrations.base_client import OAuthError  # noqa: E402
from authlib.integrations.requests_client import OAuth2Session  # noqa: E402


class OldSDK:
    """Authlib's session of one user. It is a public client with PKCE, or a confidential one if it has a secret."""

    def __init__(self, issuer, client, redirect, scope="openid", secret=None):
        self.tokens = {}
        self.metadata = call(issuer + "/.well-known/openid-configuration").json
        self.session = OAuth2Session(
            client, secret, redirect_uri=redirect, scope=scope, code_challenge_method="S256",
            token_endpoint=self.metadata["token_endpoint"], update_token=self.store, default_timeout=30)

    def store(self, token, **_):
        self.tokens = self.tokens | dict(token)

    def sign_in(self, browser):
        """Signs the user in, and stores the tokens. Returns `granted`, the OAuth error, or the status."""
        verifier = generate_token(48)
        url, state = self.session.create_authorization_url(
            self.metadata["authorization_endpoint"], code_verifier=verifier, nonce=generate_token())
        callback = browser.open(url)
        if "code=" not in callback:
            raise GaveUp(f"the provider refuses the SDK: {callback}")
        return told(lambda: self.store(self.session.fetch_token(
            authorization_response=callback, code_verifier=verifier, state=state)))

    def refresh(self, token=None):
        """Refreshes with the stored refresh token, or with another. Returns the same as `sign_in`."""
        return told(lambda: self.session.refresh_token(refresh_token=token or self.tokens["refresh_token"]))

    @property
    def subject(self):
        """The user's subject in the SDK's id_token."""
        part = self.tokens["id_token"].split(".")[1]
        return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))["sub"]


def told(act):
    """Runs an act of Authlib. Returns `granted`, the OAuth error, or the status of an answer that lacks one."""
    try:
        act()
    except OAuthError as error:
        return error.error
    except requests.HTTPError as error:
        return str(error.response.status_code)
    return "granted"
