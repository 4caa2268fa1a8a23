// A client of Go, franz-go or sarama, as client.py is one of Python: words are NAME=VALUE (see job.py).
package main

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	xdg "github.com/xdg-go/scram"
)

var job = map[string]string{}
var read, sent, failed int

func main() {
	for _, word := range os.Args[1:] {
		name, value, _ := strings.Cut(word, "=")
		job[name] = value
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	say("began", "")
	roles := map[string]func(context.Context) error{
		"franz-go produce": franzProduce, "franz-go consume": franzConsume,
		"sarama produce": saramaProduce, "sarama consume": saramaConsume,
	}
	if err := roles[job["library"]+" "+job["role"]](ctx); err != nil {
		failed++
		say("error", fmt.Sprintf(`, "name": %q`, err.Error()))
	}
	say("ended", fmt.Sprintf(`, "read": %d, "sent": %d, "failed": %d`, read, sent, failed))
}

func servers() []string { return strings.Split(job["bootstrap"], ",") }

func paced(ctx context.Context, do func(value []byte)) {
	rate, err := strconv.ParseFloat(job["rate"], 64)
	if err != nil {
		rate = 5
	}
	every := time.NewTicker(time.Duration(float64(time.Second) / rate))
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			do([]byte(strings.Repeat("request served ", 7)))
		}
	}
}

// What every client of franz-go has; a login if the words name a mechanism.
func franz() []kgo.Opt {
	user, password := job["user"], job["password"]
	mechanism := map[string]sasl.Mechanism{
		"PLAIN":         plain.Auth{User: user, Pass: password}.AsMechanism(),
		"SCRAM-SHA-256": scram.Auth{User: user, Pass: password}.AsSha256Mechanism(),
		"SCRAM-SHA-512": scram.Auth{User: user, Pass: password}.AsSha512Mechanism(),
		"OAUTHBEARER":   oauth.Auth{Token: password}.AsMechanism(),
	}[job["mechanism"]]
	options := []kgo.Opt{kgo.SeedBrokers(servers()...), kgo.ClientID(job["client_id"])}
	if mechanism != nil {
		options = append(options, kgo.SASL(mechanism))
	}
	if job["ca"] != "" {
		options = append(options, kgo.DialTLSConfig(certificates()))
	}
	return options
}

func franzProduce(ctx context.Context) error {
	client, err := kgo.NewClient(franz()...)
	if err != nil {
		return err
	}
	paced(ctx, func(value []byte) {
		client.Produce(context.Background(), &kgo.Record{Topic: job["topic"], Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed++
			} else {
				sent++
			}
		})
	})
	client.Flush(context.Background())
	client.Close()
	return nil
}

func franzConsume(ctx context.Context) error {
	client, err := kgo.NewClient(append(franz(),
		kgo.ConsumerGroup(job["group"]), kgo.ConsumeTopics(job["topic"]), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		read += fetches.NumRecords()
	}
	client.CommitUncommittedOffsets(context.Background())
	client.Close()
	return nil
}

// The authorities and the client's certificate that the words name, as files.
func certificates() *tls.Config {
	authorities, own := x509.NewCertPool(), []tls.Certificate{}
	if text, err := os.ReadFile(job["ca"]); err == nil {
		authorities.AppendCertsFromPEM(text)
	}
	if pair, err := tls.LoadX509KeyPair(job["certificate"], job["key"]); err == nil {
		own = append(own, pair)
	}
	return &tls.Config{RootCAs: authorities, Certificates: own}
}

type token string

func (t token) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(t)}, nil
}

// A login by SCRAM, which sarama leaves to its users.
type login struct {
	*xdg.ClientConversation
	hash xdg.HashGeneratorFcn
}

func (l *login) Begin(user, password, authorization string) error {
	client, err := l.hash.NewClient(user, password, authorization)
	if err == nil {
		l.ClientConversation = client.NewConversation()
	}
	return err
}

func secure(config *sarama.Config) {
	if mechanism := job["mechanism"]; mechanism != "" {
		sasl := &config.Net.SASL
		sasl.Enable, sasl.Mechanism, sasl.User, sasl.Password = true, sarama.SASLMechanism(mechanism), job["user"], job["password"]
		sasl.TokenProvider = token(job["password"])
		sasl.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient {
			if mechanism == sarama.SASLTypeSCRAMSHA256 {
				return &login{hash: sha256.New}
			}
			return &login{hash: sha512.New}
		}
	}
	if job["ca"] != "" {
		config.Net.TLS.Enable, config.Net.TLS.Config = true, certificates()
	}
}

func configured() *sarama.Config {
	config := sarama.NewConfig()
	config.ClientID = job["client_id"]
	config.Version = sarama.V2_8_0_0
	config.Producer.Return.Successes = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	secure(config)
	return config
}

func saramaProduce(ctx context.Context) error {
	producer, err := sarama.NewSyncProducer(servers(), configured())
	if err != nil {
		return err
	}
	paced(ctx, func(value []byte) {
		if _, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: job["topic"], Value: sarama.ByteEncoder(value)}); err != nil {
			failed++
		} else {
			sent++
		}
	})
	return producer.Close()
}

type handler struct{}

func (handler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			read++
			session.MarkMessage(message, "")
		case <-session.Context().Done():
			return nil
		}
	}
}

func saramaConsume(ctx context.Context) error {
	group, err := sarama.NewConsumerGroup(servers(), job["group"], configured())
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := group.Consume(ctx, []string{job["topic"]}, handler{}); err != nil {
			failed++
			time.Sleep(500 * time.Millisecond)
		}
	}
	return group.Close()
}

func say(event, more string) {
	fmt.Printf("{\"at\": %.3f, \"event\": %q%s}\n", float64(time.Now().UnixMilli())/1000, event, more)
}
