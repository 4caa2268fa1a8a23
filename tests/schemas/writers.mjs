// Writes random values with the libraries of npm: a line of JSON for each, with its format, bytes in hex, and the library's own reading.
import { createRequire } from "node:module";

const require = createRequire(`${process.argv[2]}/`);
const avro = require("avsc");
const protobuf = require("protobufjs");
const { avro: schema, proto, count } = JSON.parse(process.argv[3]);

const plain = (value) =>
  JSON.parse(
    JSON.stringify(value, (name, held) =>
      held && held.type === "Buffer" ? Buffer.from(held.data).toString("base64") : held,
    ),
  );
const type = avro.Type.forSchema(schema, { wrapUnions: false });
for (let number = 0; number < count; number++) {
  const bytes = type.toBuffer(type.random());
  console.log(JSON.stringify({ format: "AVRO", hex: bytes.toString("hex"), value: plain(type.fromBuffer(bytes)) }));
}
const Order = protobuf.parse(proto, { keepCase: true }).root.lookupType("shop.Order");
const options = { longs: String, enums: String, bytes: String, defaults: false, arrays: true, objects: true };
for (let number = 0; number < count; number++) {
  const sent = { id: number, note: "ü".repeat(number % 5), lines: [], weights: { a: number / 7 } };
  for (let line = 0; line < number % 4; line++) sent.lines.push({ sku: `s${line}`, count: line - number });
  const bytes = Buffer.from(Order.encode(Order.fromObject(sent)).finish());
  console.log(JSON.stringify({ format: "PROTOBUF", hex: bytes.toString("hex"), value: Order.toObject(Order.decode(bytes), options) }));
}
