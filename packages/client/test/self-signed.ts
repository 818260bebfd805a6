/** A certificate that nobody else signed, made on the spot, so that tests need neither openssl nor a key in the repository. */
import { generateKeyPairSync, sign } from "node:crypto";

/** For `localhost`, valid for a day around `now`. PEM. */
export function selfSigned(now = new Date()): { key: string; cert: string } {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const ecdsaWithSha256 = der(0x30, Buffer.from("06082a8648ce3d040302", "hex"));
  const commonName = der(0x30, Buffer.from("0603550403", "hex"), der(0x0c, Buffer.from("localhost")));
  const name = der(0x30, der(0x31, commonName));
  const day = 86_400_000;
  const validity = der(0x30, time(now.getTime() - day), time(now.getTime() + day));
  const version3 = der(0xa0, der(0x02, Buffer.from([2])));
  const serial = der(0x02, Buffer.from([1]));
  const subjectKey = publicKey.export({ type: "spki", format: "der" });
  const signed = der(0x30, version3, serial, ecdsaWithSha256, name, validity, name, subjectKey);
  const signature = der(0x03, Buffer.from([0]), sign("sha256", signed, privateKey));
  const lines =
    der(0x30, signed, ecdsaWithSha256, signature)
      .toString("base64")
      .match(/.{1,64}/g) ?? [];
  const cert = ["-----BEGIN CERTIFICATE-----", ...lines, "-----END CERTIFICATE-----", ""].join("\n");
  return { key: privateKey.export({ type: "pkcs8", format: "pem" }).toString(), cert };
}

/** A UTCTime. */
function time(ms: number): Buffer {
  const text = new Date(ms).toISOString().replace(/[-:T]|\.\d+/g, "");
  return der(0x17, Buffer.from(text.slice(2)));
}

/** A tag, its length and its content, in DER. */
function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}
