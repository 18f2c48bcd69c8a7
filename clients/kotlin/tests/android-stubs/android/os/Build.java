// android.os.Build.VERSION: SDK_INT
package android.os;

public class Build {
    public static class VERSION {
        public static final int SDK_INT = Integer.parseInt("30");
    }
}
