module kproxy/writers

go 1.24

require (
	github.com/hamba/avro/v2 v2.28.0
	github.com/twmb/franz-go/pkg/sr v1.3.0
	google.golang.org/protobuf v1.36.6
)

require (
	github.com/json-iterator/go v1.1.12 // indirect
	github.com/mitchellh/mapstructure v1.5.0 // indirect
	github.com/modern-go/concurrent v0.0.0-20180306012644-bacd9c7ef1dd // indirect
	github.com/modern-go/reflect2 v1.0.2 // indirect
)
