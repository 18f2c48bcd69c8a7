// android.content.SharedPreferences: getString, edit. SharedPreferences.Editor: putString, remove, commit
package android.content;

import android.annotation.Nullable;

public interface SharedPreferences {
    @Nullable
    String getString(String key, @Nullable String defValue);

    Editor edit();

    interface Editor {
        Editor putString(String key, @Nullable String value);

        Editor remove(String key);

        boolean commit();
    }
}
