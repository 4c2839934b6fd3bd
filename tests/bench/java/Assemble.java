import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.util.Properties;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * The same job in Kafka Streams, as its documentation teaches: a processor with a persistent key-value store (RocksDB,
 * cached, with a changelog topic), one thread, at-least-once.
 *
 * <p>It drops duplicates by `seq`, assembles the text, produces the finished turn.
 *
 * <p>java Assemble BROKERS TOPIC OUTPUT FOLDER EVENTS -> {"events": …, "seconds": …, "cpu": …}
 */
public class Assemble implements Processor<byte[], byte[], byte[], byte[]> {
  private static final String OPEN = "open-turns";
  private static final OperatingSystemMXBean SYSTEM =
      (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

  private final ObjectMapper json = new ObjectMapper();
  private final long events;
  private ProcessorContext<byte[], byte[]> context;
  private KeyValueStore<String, byte[]> open;
  private static long count = 0; // of all partitions: one thread has them
  private static long began = 0;
  private static long cpu = 0;

  Assemble(long events) {
    this.events = events;
  }

  @Override
  public void init(ProcessorContext<byte[], byte[]> context) {
    this.context = context;
    this.open = context.getStateStore(OPEN);
  }

  @Override
  public void process(Record<byte[], byte[]> record) {
    if (began == 0) {
      began = System.nanoTime();
      cpu = SYSTEM.getProcessCpuTime();
    }
    try {
      JsonNode envelope = json.readTree(record.value());
      assemble(record, envelope);
      count += envelope.get("events").size();
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
    if (count >= events) {
      double seconds = (System.nanoTime() - began) / 1e9;
      double spent = (SYSTEM.getProcessCpuTime() - cpu) / 1e9;
      System.out.printf("{\"events\": %d, \"seconds\": %s, \"cpu\": %s}%n", count, seconds, spent);
      System.out.flush();
      Runtime.getRuntime().halt(0); // nothing depends on how it stops
    }
  }

  private void assemble(Record<byte[], byte[]> record, JsonNode envelope) throws IOException {
    String key = envelope.get("thread_id").asText() + "/" + envelope.get("run_id").asText();
    byte[] known = open.get(key);
    long seen = 0;
    StringBuilder text = new StringBuilder();
    if (known != null) {
      JsonNode turn = json.readTree(known);
      seen = turn.get("seen").asLong();
      text.append(turn.get("text").asText());
    }
    if (envelope.get("seq").asLong() != seen) {
      return;
    }
    for (JsonNode event : envelope.get("events")) {
      if (event.get("type").asText().equals("text-delta")) {
        text.append(event.get("delta").asText());
      }
    }
    ObjectNode turn = json.createObjectNode();
    turn.put("text", text.toString());
    if (envelope.has("end")) {
      turn.put("run_id", envelope.get("run_id").asText());
      turn.put("status", envelope.get("end").asText());
      context.forward(record.withValue(json.writeValueAsBytes(turn)));
      open.delete(key);
    } else {
      turn.put("seen", seen + envelope.get("events").size());
      open.put(key, json.writeValueAsBytes(turn));
    }
  }

  public static void main(String[] arguments) {
    long events = Long.parseLong(arguments[4]);
    Properties settings = new Properties();
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "bench-streams-" + ProcessHandle.current().pid());
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
    settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[3]);
    settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 1000);
    settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 64 << 20);
    settings.put("auto.offset.reset", "earliest");
    settings.put("max.poll.records", 5000);
    Topology topology = new Topology();
    topology.addSource("events", new ByteArrayDeserializer(), new ByteArrayDeserializer(), arguments[1]);
    topology.addProcessor("assemble", () -> new Assemble(events), "events");
    topology.addStateStore(
        Stores.keyValueStoreBuilder(
                Stores.persistentKeyValueStore(OPEN), Serdes.String(), Serdes.ByteArray())
            .withCachingEnabled(),
        "assemble");
    topology.addSink("turns", arguments[2], new ByteArraySerializer(), new ByteArraySerializer(), "assemble");
    new KafkaStreams(topology, settings).start();
  }
}
