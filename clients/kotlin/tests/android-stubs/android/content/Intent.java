// android.content.Intent: getAction, getDataString, ACTION_VIEW. Both methods return null if the intent has none.
package android.content;

import android.annotation.Nullable;

public class Intent {
    public static final String ACTION_VIEW = "android.intent.action.VIEW";

    @Nullable
    public String getAction() { throw new RuntimeException(); }

    @Nullable
    public String getDataString() { throw new RuntimeException(); }
}
