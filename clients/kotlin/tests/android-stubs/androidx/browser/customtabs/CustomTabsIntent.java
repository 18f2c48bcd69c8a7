// androidx.browser.customtabs.CustomTabsIntent: launchUrl, SHARE_STATE_OFF. CustomTabsIntent.Builder: setShareState, build.
// The library has its own annotations of the same meaning.
package androidx.browser.customtabs;

import android.annotation.NonNull;
import android.content.Context;
import android.net.Uri;

public final class CustomTabsIntent {
    public static final int SHARE_STATE_OFF = 2;

    public void launchUrl(@NonNull Context context, @NonNull Uri url) { throw new RuntimeException(); }

    public static final class Builder {
        public Builder() { throw new RuntimeException(); }

        @NonNull
        public Builder setShareState(int shareState) { throw new RuntimeException(); }

        @NonNull
        public CustomTabsIntent build() { throw new RuntimeException(); }
    }
}
