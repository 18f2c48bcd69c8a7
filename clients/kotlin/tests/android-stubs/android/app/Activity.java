// android.app.Activity: runOnUiThread. The platform has ContextThemeWrapper between the two classes.
package android.app;

import android.content.ContextWrapper;

public class Activity extends ContextWrapper {
    public final void runOnUiThread(Runnable action) { throw new RuntimeException(); }
}
