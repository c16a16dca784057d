module example/confluent-kafka-go

go 1.26

require (
	example/lines v0.0.0
	github.com/confluentinc/confluent-kafka-go/v2 v2.11.1
)

replace example/lines => ../go-lines
