// Prints the CustomResourceDefinitions of Strimzi's classes that are named, one JSON object a line. The operator's own
// generator is not published; this takes names, types, choices and what is required from the same classes.

import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.annotation.JsonPropertyOrder;
import com.fasterxml.jackson.annotation.JsonSubTypes;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

public class Definitions {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, Object> ANYTHING = Map.of("type", "object", "x-kubernetes-preserve-unknown-fields", true);

    public static void main(String[] names) throws Exception {
        for (String name : names) {
            System.out.println(JSON.writeValueAsString(definition(Class.forName(name))));
        }
    }

    private static Map<String, Object> definition(Class<?> resource) throws Exception {
        String group = constant(resource, "RESOURCE_GROUP"), plural = constant(resource, "RESOURCE_PLURAL");
        String kind = constant(resource, "RESOURCE_KIND");
        Map<String, Object> properties = new LinkedHashMap<>();
        properties.put("spec", schema(getter(resource.getMethod("getSpec"), resource)));
        properties.put("status", ANYTHING);
        List<Object> versions = new ArrayList<>();
        for (Object version : (List<?>) resource.getField("VERSIONS").get(null)) {
            versions.add(Map.of(
                "name", version, "served", true, "storage", version.equals("v1"),
                "schema", Map.of("openAPIV3Schema", Map.of("type", "object", "properties", properties)),
                "subresources", Map.of("status", Map.of())));
        }
        Map<String, Object> names = Map.of(
            "kind", kind, "plural", plural, "singular", kind.toLowerCase(), "listKind", kind + "List");
        return Map.of(
            "apiVersion", "apiextensions.k8s.io/v1", "kind", "CustomResourceDefinition",
            "metadata", Map.of("name", plural + "." + group),
            "spec", Map.of(
                "group", group, "scope", constant(resource, "SCOPE"), "names", names, "versions", versions));
    }

    private static String constant(Class<?> resource, String name) throws Exception {
        return (String) resource.getField(name).get(null);
    }

    /** The type that a getter gives; of a resource's spec, which is a type variable there, the argument of its base class. */
    private static Type getter(Method method, Class<?> resource) {
        Type type = method.getGenericReturnType();
        return type instanceof Class ? type : ((ParameterizedType) resource.getGenericSuperclass()).getActualTypeArguments()[0];
    }

    private static Map<String, Object> schema(Type type) throws Exception {
        if (type instanceof ParameterizedType generic && generic.getRawType() == List.class) {
            return Map.of("type", "array", "items", schema(generic.getActualTypeArguments()[0]));
        }
        if (!(type instanceof Class<?> c)) {
            return ANYTHING;
        }
        if (c == String.class) {
            return Map.of("type", "string");
        }
        if (c == Integer.class || c == int.class || c == Long.class || c == long.class) {
            return Map.of("type", "integer");
        }
        if (c == Double.class || c == double.class) {
            return Map.of("type", "number");
        }
        if (c == Boolean.class || c == boolean.class) {
            return Map.of("type", "boolean");
        }
        if (c.isEnum()) {
            return Map.of("type", "string", "enum", JSON.convertValue(c.getEnumConstants(), List.class));
        }
        return c.getName().startsWith("io.strimzi.") ? object(c) : ANYTHING;
    }

    /** Of a class with subtypes: the properties of all of them, of which `type` says which. */
    private static Map<String, Object> object(Class<?> c) throws Exception {
        Map<String, Object> properties = new LinkedHashMap<>();
        Set<String> required = new LinkedHashSet<>();
        JsonSubTypes subtypes = c.getAnnotation(JsonSubTypes.class);
        if (subtypes == null) {
            fill(c, properties, required);
        } else {
            List<String> kinds = new ArrayList<>();
            for (JsonSubTypes.Type subtype : subtypes.value()) {
                fill(subtype.value(), properties, new LinkedHashSet<>());
                kinds.add(subtype.name());
            }
            properties.put("type", Map.of("type", "string", "enum", kinds));
            required.add("type");
        }
        Map<String, Object> schema = new LinkedHashMap<>();
        schema.put("type", "object");
        schema.put("properties", properties);
        if (!required.isEmpty()) {
            schema.put("required", required);
        }
        return schema;
    }

    private static void fill(Class<?> c, Map<String, Object> properties, Set<String> required) throws Exception {
        JsonPropertyOrder order = c.getAnnotation(JsonPropertyOrder.class);
        for (String name : order == null ? new String[0] : order.value()) {
            Method method = method(c, name);
            properties.put(name, schema(method.getGenericReturnType()));
            JsonProperty property = method.getAnnotation(JsonProperty.class);
            if (property != null && property.required()) {
                required.add(name);
            }
        }
    }

    private static Method method(Class<?> c, String property) throws NoSuchMethodException {
        String name = property.substring(0, 1).toUpperCase() + property.substring(1);
        try {
            return c.getMethod("get" + name);
        } catch (NoSuchMethodException absent) {
            return c.getMethod("is" + name);
        }
    }
}
