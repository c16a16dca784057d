// A bare franz-go producer in a simple loop; see bare_client.py, of which this is the counterpart in Go.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type plan struct {
	Partitions [][2]any
	Bytes      int
	Begin      float64
	Seconds    float64
	Offset     int
	Bootstrap  string
}

func main() {
	var p plan
	must(json.Unmarshal([]byte(os.Args[1]), &p))
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(p.Bootstrap, ",")...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(0),
	)
	must(err)
	payload := make([]byte, p.Bytes)
	_, err = rand.Read(payload) // franz-go compresses
	must(err)
	send := func(n int) {
		partition := p.Partitions[n%len(p.Partitions)]
		record := &kgo.Record{Topic: partition[0].(string), Partition: int32(partition[1].(float64)), Value: payload}
		must(client.ProduceSync(context.Background(), record).FirstErr())
	}
	for n := range p.Partitions { // first connect and fetch metadata
		send(n)
	}
	whole, fraction := math.Modf(p.Begin)
	time.Sleep(time.Until(time.Unix(int64(whole), int64(fraction*1e9))))
	acknowledged := 0
	for end := time.Now().Add(time.Duration(p.Seconds * float64(time.Second))); time.Now().Before(end); acknowledged++ {
		send(p.Offset + acknowledged)
	}
	fmt.Println(acknowledged)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
