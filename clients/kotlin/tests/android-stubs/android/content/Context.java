// android.content.Context: getSharedPreferences, getText, getMainExecutor (API 28), MODE_PRIVATE
package android.content;

import android.annotation.NonNull;
import java.util.concurrent.Executor;

public abstract class Context {
    public static final int MODE_PRIVATE = 0;

    public abstract SharedPreferences getSharedPreferences(String name, int mode);

    @NonNull
    public final CharSequence getText(int resId) { throw new RuntimeException(); }

    public Executor getMainExecutor() { throw new RuntimeException(); }
}
