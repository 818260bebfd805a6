/** Certificates for tests; `certificates/make.sh` makes them. */

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

export type CertificateName = "ca" | "other-ca" | "server" | "renewed" | "node" | "client" | "stranger";

export function certificatePath(name: CertificateName | `${CertificateName}-key`): string {
  return fileURLToPath(new URL(`certificates/${name}.pem`, import.meta.url));
}

/** PEM. */
export function pem(name: CertificateName | `${CertificateName}-key`): string {
  return readFileSync(certificatePath(name), "utf8");
}

/** Certificate and key. */
export function identity(name: CertificateName): { cert: string; key: string } {
  return { cert: pem(name), key: pem(`${name}-key` as `${CertificateName}-key`) };
}
