// Writes random values with the libraries of npm: a line of JSON for each, with its format, bytes in hex, and the library's own reading.
// Serializers frame them; then the line has the schema, too.
import { createRequire } from "node:module";

const require = createRequire(`${process.argv[2]}/`);
const avro = require("avsc");
const protobuf = require("protobufjs");
const { createServer } = require("node:http");
const bufbuild = require("@bufbuild/protobuf");
const { FileDescriptorSetSchema } = require("@bufbuild/protobuf/wkt");
const confluent = require("@confluentinc/schemaregistry");
const { SchemaRegistry } = require("@kafkajs/confluent-schema-registry");
const { avro: schema, proto, descriptors, json, count } = JSON.parse(process.argv[3]);

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

const documents = Array.from({ length: count }, (_, number) => {
  const sum = number % 3 ? number / 7 : null;
  return { id: number, lines: [{ sku: "ü".repeat(number % 4) }], sum };
});
const orders = Array.from({ length: count }, () => type.random());
const show = (library, format, text, bytes, value) =>
  console.log(JSON.stringify({ library, format, schema: text, hex: Buffer.from(bytes).toString("hex"), value: plain(value) }));

const client = confluent.SchemaRegistryClient.newClient({ baseURLs: ["mock://"], cacheCapacity: 100 });
for (const [format, text, values, Writer, Reader] of [
  ["AVRO", JSON.stringify(schema), orders, confluent.AvroSerializer, confluent.AvroDeserializer],
  ["JSON", JSON.stringify(json), documents, confluent.JsonSerializer, confluent.JsonDeserializer],
]) {
  await client.register(`${format}-value`, { schemaType: format, schema: text });
  const writer = new Writer(client, confluent.SerdeType.VALUE, { useLatestVersion: true });
  const reader = new Reader(client, confluent.SerdeType.VALUE, {});
  for (const one of values) {
    const bytes = await writer.serialize(format, one);
    show("confluent", format, text, bytes, await reader.deserialize(format, bytes));
  }
}
const files = bufbuild.createFileRegistry(bufbuild.fromBinary(FileDescriptorSetSchema, Buffer.from(descriptors, "base64")));
const description = files.getMessage("shop.Order");
const writer = new confluent.ProtobufSerializer(client, confluent.SerdeType.VALUE, { autoRegisterSchemas: true });
const reader = new confluent.ProtobufDeserializer(client, confluent.SerdeType.VALUE, {});
writer.registry.add(description);
for (let number = 0; number < count; number++) {
  const lines = Array.from({ length: number % 4 }, (_, at) => ({ sku: `s${at}`, count: at - number }));
  const bytes = await writer.serialize("proto", bufbuild.fromJson(description, { id: number, lines, weights: { a: number / 7 } }));
  const { schema: text } = await client.getLatestSchemaMetadata("proto-value");
  const read = bufbuild.toJson(description, await reader.deserialize("proto", bytes), { alwaysEmitImplicit: true });
  show("confluent", "PROTOBUF", text, bytes, read);
}

const kept = [];
const server = createServer((asked, answer) => {
  let body = "";
  asked.on("data", (part) => (body += part));
  asked.on("end", () => {
    const known = asked.url.startsWith("/config") ? { compatibilityLevel: "BACKWARD" } : kept[asked.url.split("/").pop() - 1];
    answer.setHeader("content-type", "application/json");
    answer.end(JSON.stringify(asked.method === "POST" ? { id: kept.push(JSON.parse(body)) } : known));
  });
});
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
const registry = new SchemaRegistry({ host: `http://127.0.0.1:${server.address().port}` });
for (const [format, text, values] of [["AVRO", JSON.stringify(schema), orders], ["JSON", JSON.stringify(json), documents]]) {
  const { id } = await registry.register({ type: format, schema: text }, { subject: `${format}-value` });
  for (const one of values) {
    const bytes = await registry.encode(id, one);
    show("kafkajs", format, text, bytes, await registry.decode(bytes));
  }
}
server.close();
server.closeAllConnections();
