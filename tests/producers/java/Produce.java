import java.nio.file.*;
import java.util.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.StringSerializer;

/** Produce BROKERS TOPIC FILE [NAME=VALUE …]: writes the records of FILE, a key, a tab and a value a line; with settings. */
public class Produce {
    public static void main(String[] arguments) throws Exception {
        var settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        for (var setting : Arrays.asList(arguments).subList(3, arguments.length)) {
            settings.put(setting.substring(0, setting.indexOf('=')), setting.substring(setting.indexOf('=') + 1));
        }
        var sent = new ArrayList<java.util.concurrent.Future<RecordMetadata>>();
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (var line : Files.readAllLines(Path.of(arguments[2]))) {
                var tab = line.indexOf('\t');
                var key = tab == 0 ? null : line.substring(0, tab);
                sent.add(producer.send(new ProducerRecord<>(arguments[1], key, line.substring(tab + 1))));
            }
            producer.flush();
            for (var answer : sent) {
                answer.get();
            }
        }
    }
}
