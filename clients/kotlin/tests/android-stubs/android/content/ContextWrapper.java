// android.content.ContextWrapper: getSharedPreferences
package android.content;

public class ContextWrapper extends Context {
    @Override
    public SharedPreferences getSharedPreferences(String name, int mode) { throw new RuntimeException(); }
}
