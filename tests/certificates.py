"""A PKI for tests: a CA and its certificates, as a user's PKI would write them."""

import datetime as dt
from pathlib import Path

import trustme

from netesto.model import TlsFiles

NOW = dt.datetime.now(dt.UTC)
DAY = dt.timedelta(days=1)


class Pki:
    """A CA whose certificate is at `ca`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._authority = trustme.CA(organization_name="the tests")
        self.ca = folder / "ca.pem"
        self._authority.cert_pem.write_to_path(self.ca)

    def issue(
        self,
        name: str,
        *identities: str,
        not_after: dt.datetime = NOW + DAY,
        not_before: dt.datetime = NOW - 2 * DAY,
        common_name: str | None = None,
    ) -> TlsFiles:
        """A certificate for `identities` (by default `name`) and its key, in files called `name`;
        they replace earlier ones."""
        made = self._authority.issue_cert(
            *(identities or ([] if common_name else [name])),
            common_name=common_name,
            not_after=not_after,
            not_before=not_before,
        )
        certificate, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        for path, blob in ((certificate, made.cert_chain_pems[0]), (key, made.private_key_pem)):
            draft = path.with_suffix(".new")
            blob.write_to_path(draft)
            draft.chmod(0o600)
            draft.replace(path)
        return TlsFiles(certificate=certificate, key=key, ca=self.ca)
