import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { whyNoNodeAddress } from "./node-address.ts";

const why = (url: string) => whyNoNodeAddress(new URL(url).hostname);

describe("addresses of nodes", () => {
  it("loopback may serve, in every spelling", () => {
    for (const host of [
      ...["127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "017700000001", "127.255.255.254"],
      ...["localhost", "LOCALHOST", "127.0.0.1.", "１２７.0.0.1", "[::1]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]"],
      ...["[::ffff:7f00:1]", "0.0.0.0", "0", "[::]"],
    ]) {
      assert.equal(why(`http://${host}:8000`), null, host);
    }
  });

  it("link-local and metadata addresses may not, in any spelling", () => {
    for (const host of [
      ...[
        "169.254.169.254",
        "169.254.169.254.",
        "2852039166",
        "0xa9fea9fe",
        "0xA9.0xFE.0xA9.0xFE",
        "0251.0376.0251.0376",
      ],
      ...[
        "025177524776",
        "169.254.43518",
        "169.16689662",
        "169.0xfe.0251.254",
        "１６９.254.169.254",
        "169。254。169。254",
      ],
      ...["169.254.0.1", "169.254.170.2", "169.254.255.255", "%31%36%39.254.169.254"],
      ...["[fe80::1]", "[FEBF::1]", "[fe80::a9fe:a9fe]", "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]"],
      ...[
        "[0:0:0:0:0:ffff:a9fe:a9fe]",
        "[::169.254.169.254]",
        "[::ffff:0:169.254.169.254]",
        "[64:ff9b::169.254.169.254]",
      ],
      ...["[64:ff9b:1::a9fe:a9fe]", "[2002:a9fe:a9fe::1]"],
    ]) {
      assert.equal(why(`http://${host}:8000`), "link_local", host);
    }
    for (const host of [
      ...[
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "100.6579400",
        "0x64.0x64.25800",
        "[fd00:ec2::254]",
        "[FD00:0EC2:0::0254]",
      ],
      ...["[fd20:ce::254]", "[::ffff:100.100.100.200]"],
    ]) {
      assert.equal(why(`http://${host}:8000`), "metadata", host);
    }
  });

  it("other addresses may, and names are not looked at", () => {
    for (const host of [
      ...["10.0.0.21", "192.168.1.5", "172.16.0.9", "100.64.0.1", "169.253.255.255", "169.255.0.0", "8.8.8.8"],
      ...["[fd00::1]", "[fd00:ec2::253]", "[2001:db8::1]", "[fec0::1]", "[2002:a00:1::]", "169-254-169-254.example"],
      ...["metadata.google.internal", "node", "fe80.example"],
    ]) {
      assert.equal(why(`http://${host}:8000`), null, host);
    }
  });

  it("reads addresses as a resolver gives them", () => {
    assert.equal(whyNoNodeAddress("fe80::1%eth0"), "link_local");
    assert.equal(whyNoNodeAddress("::ffff:169.254.169.254"), "link_local");
    assert.equal(whyNoNodeAddress("10.0.0.1"), null);
    assert.equal(whyNoNodeAddress("::1"), null);
  });
});
