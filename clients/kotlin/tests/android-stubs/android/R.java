// android.R.string.cancel
package android;

public final class R {
    public static final class string {
        public static final int cancel = 17039360;
    }
}
