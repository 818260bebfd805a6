"""`python make_certificates.py FOLDER`: a server's certificate for 127.0.0.1, and the authority that signed it."""

import sys
from pathlib import Path

import trustme

folder = Path(sys.argv[1])
authority = trustme.CA()
authority.cert_pem.write_to_path(str(folder / "authority.pem"))
authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(folder / "server.pem"))
