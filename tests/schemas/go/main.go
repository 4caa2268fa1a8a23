// Writes random values with franz-go's serde: a line of JSON for each, with its format, the framed bytes in hex, and what its own decoder reads.
package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/rand"
	"os"
	"strconv"

	"github.com/hamba/avro/v2"
	"github.com/twmb/franz-go/pkg/sr"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

type line struct {
	Sku   string `avro:"sku" json:"sku"`
	Count int64  `avro:"count" json:"count"`
}

type order struct {
	ID      int64              `avro:"id" json:"id"`
	Total   float64            `avro:"total" json:"total"`
	Note    *string            `avro:"note" json:"note"`
	State   string             `avro:"state" json:"state"`
	Data    []byte             `avro:"data" json:"data"`
	Lines   []line             `avro:"lines" json:"lines"`
	Weights map[string]float32 `avro:"weights" json:"weights"`
	Parent  *order             `avro:"parent" json:"parent"`
}

// Go reads an array of no items as nil, which its JSON shows as null.
func complete(one *order) *order {
	if one != nil {
		one.Lines = append([]line{}, one.Lines...)
		one.Data = append([]byte{}, one.Data...)
		complete(one.Parent)
	}
	return one
}

func random(chance *rand.Rand, depth int) order {
	one := order{ID: int64(chance.Uint64()), Total: chance.NormFloat64(), State: []string{"NEW", "PAID"}[chance.Intn(2)],
		Data: make([]byte, chance.Intn(9)), Lines: []line{}, Weights: map[string]float32{}}
	chance.Read(one.Data)
	if chance.Intn(2) == 0 {
		note := "Ελλάδα"[:2*chance.Intn(6)]
		one.Note = &note
	}
	for n := chance.Intn(4); n > 0; n-- {
		one.Lines = append(one.Lines, line{strconv.Itoa(n), -int64(chance.Uint32())})
		one.Weights[strconv.Itoa(n)] = float32(chance.Intn(1000)) / 8
	}
	if depth < 3 && chance.Intn(2) == 0 {
		parent := random(chance, depth+1)
		one.Parent = &parent
	}
	return one
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func show(format string, data []byte, value []byte) {
	fmt.Printf("{\"format\": %q, \"hex\": %q, \"value\": %s}\n", format, hex.EncodeToString(data), value)
}

func main() {
	count, chance := must(strconv.Atoi(os.Args[1])), rand.New(rand.NewSource(7))
	schema := avro.MustParse(os.Args[2])
	var file descriptorpb.FileDescriptorProto
	if err := proto.Unmarshal(must(hex.DecodeString(os.Args[3])), &file); err != nil {
		panic(err)
	}
	message := must(protodesc.NewFile(&file, nil)).Messages().ByName("Order")
	nested := message.Messages().ByName("Line")
	var serde sr.Serde
	serde.Register(7, order{}, sr.EncodeFn(func(v any) ([]byte, error) { return avro.Marshal(schema, v) }),
		sr.DecodeFn(func(data []byte, v any) error { return avro.Unmarshal(schema, data, v) }))
	serde.Register(300, dynamicpb.NewMessage(message), sr.EncodeFn(func(v any) ([]byte, error) { return proto.Marshal(v.(proto.Message)) }),
		sr.DecodeFn(func(data []byte, v any) error { return proto.Unmarshal(data, v.(proto.Message)) }),
		sr.Index(message.Index()))
	for n := 0; n < count; n++ {
		data := must(serde.Encode(random(chance, 0)))
		var read order
		if err := serde.Decode(data, &read); err != nil {
			panic(err)
		}
		show("AVRO", data, must(json.Marshal(complete(&read))))

		one := dynamicpb.NewMessage(message)
		one.Set(message.Fields().ByName("id"), protoreflect.ValueOfUint64(chance.Uint64()))
		list := one.Mutable(message.Fields().ByName("lines")).List()
		for at := chance.Intn(4); at > 0; at-- {
			inner := dynamicpb.NewMessage(nested)
			inner.Set(nested.Fields().ByName("count"), protoreflect.ValueOfInt32(int32(chance.Uint32())))
			list.Append(protoreflect.ValueOfMessage(inner))
		}
		weight := protoreflect.ValueOfFloat64(math.Trunc(chance.NormFloat64()*1000) / 8)
		one.Mutable(message.Fields().ByName("weights")).Map().Set(protoreflect.ValueOfString("k").MapKey(), weight)
		data = must(serde.Encode(one))
		back := dynamicpb.NewMessage(message)
		if err := serde.Decode(data, back); err != nil {
			panic(err)
		}
		options := protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}
		show("PROTOBUF", data, must(options.Marshal(back)))
	}
}
