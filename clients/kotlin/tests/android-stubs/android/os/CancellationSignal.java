// android.os.CancellationSignal: cancel
package android.os;

public final class CancellationSignal {
    public void cancel() { throw new RuntimeException(); }
}
