// android.util.Base64: decode, encodeToString, NO_WRAP
package android.util;

public class Base64 {
    public static final int NO_WRAP = 2;

    public static byte[] decode(String str, int flags) { throw new RuntimeException(); }

    public static String encodeToString(byte[] input, int flags) { throw new RuntimeException(); }
}
