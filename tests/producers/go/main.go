// producers CLIENT BROKERS TOPIC FILE: writes the records of FILE, one {"key", "value"} a line, one after the other.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/IBM/sarama"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

type record struct {
	Key   *string `json:"key"`
	Value string  `json:"value"`
}

func (r record) key() []byte {
	if r.Key == nil {
		return nil
	}
	return []byte(*r.Key)
}

func ofSarama(partitioner sarama.PartitionerConstructor) func([]string, string, []record) error {
	return func(brokers []string, topic string, records []record) error {
		config := sarama.NewConfig()
		config.Producer.Return.Successes = true
		if partitioner != nil {
			config.Producer.Partitioner = partitioner
		}
		producer, err := sarama.NewSyncProducer(brokers, config)
		if err != nil {
			return err
		}
		defer producer.Close()
		for _, r := range records {
			message := &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(r.Value)}
			if r.Key != nil {
				message.Key = sarama.StringEncoder(*r.Key)
			}
			if _, _, err := producer.SendMessage(message); err != nil {
				return err
			}
		}
		return nil
	}
}

func ofKafkaGo(balancer kafka.Balancer) func([]string, string, []record) error {
	return func(brokers []string, topic string, records []record) error {
		writer := &kafka.Writer{Addr: kafka.TCP(brokers...), Topic: topic, Balancer: balancer, BatchSize: 1, RequiredAcks: kafka.RequireAll}
		defer writer.Close()
		for _, r := range records {
			message := kafka.Message{Key: r.key(), Value: []byte(r.Value)}
			if err := writer.WriteMessages(context.Background(), message); err != nil {
				return err
			}
		}
		return nil
	}
}

func franzGo(brokers []string, topic string, records []record) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.DefaultProduceTopic(topic))
	if err != nil {
		return err
	}
	defer client.Close()
	for _, r := range records {
		if err := client.ProduceSync(context.Background(), &kgo.Record{Key: r.key(), Value: []byte(r.Value)}).FirstErr(); err != nil {
			return err
		}
	}
	return nil
}

// murmur2 is Java's hash, which sarama has no constructor for.
func murmur2(data []byte) int32 {
	const m uint32 = 0x5bd1e995
	h := uint32(0x9747b28c) ^ uint32(len(data))
	for ; len(data) >= 4; data = data[4:] {
		k := uint32(data[0]) | uint32(data[1])<<8 | uint32(data[2])<<16 | uint32(data[3])<<24
		k *= m
		k ^= k >> 24
		h = h*m ^ k*m
	}
	switch len(data) {
	case 3:
		h ^= uint32(data[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(data[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(data[0])) * m
	}
	h = (h ^ h>>13) * m
	return int32(h ^ h>>15)
}

type asJava struct{ sarama.Partitioner }

func (p asJava) Partition(message *sarama.ProducerMessage, partitions int32) (int32, error) {
	if message.Key == nil {
		return p.Partitioner.Partition(message, partitions)
	}
	key, err := message.Key.Encode()
	return (murmur2(key) & 0x7fffffff) % partitions, err
}

var clients = map[string]func([]string, string, []record) error{
	"sarama":           ofSarama(nil),
	"sarama-java":      ofSarama(func(topic string) sarama.Partitioner { return asJava{sarama.NewRandomPartitioner(topic)} }),
	"kafka-go":         ofKafkaGo(nil),
	"kafka-go-murmur2": ofKafkaGo(kafka.Murmur2Balancer{}),
	"kafka-go-hash":    ofKafkaGo(&kafka.Hash{}),
	"kafka-go-crc32":   ofKafkaGo(kafka.CRC32Balancer{}),
	"franz-go":         franzGo,
}

func main() {
	client, brokers, topic, file := os.Args[1], strings.Split(os.Args[2], ","), os.Args[3], os.Args[4]
	input, err := os.Open(file)
	if err != nil {
		panic(err)
	}
	var records []record
	lines := bufio.NewScanner(input)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			panic(err)
		}
		records = append(records, r)
	}
	if err := clients[client](brokers, topic, records); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
