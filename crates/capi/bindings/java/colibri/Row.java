package colibri;

import java.util.List;

/** A row: values by the name of their column, or by its place from 0. */
public record Row(List<String> names, List<Object> values) {
    public Object get(int place) { return values.get(place); }

    public Object get(String name) {
        int place = names.indexOf(name);
        if (place < 0) {
            throw new IllegalArgumentException("the row has no column " + name + "; it has " + names);
        }
        return values.get(place);
    }

    public String text(String name) { return (String) get(name); }

    public long number(String name) { return (Long) get(name); }

    public double real(String name) { return (Double) get(name); }
}
