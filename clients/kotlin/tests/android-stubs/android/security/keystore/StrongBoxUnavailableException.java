// android.security.keystore.StrongBoxUnavailableException (API 28)
package android.security.keystore;

import java.security.ProviderException;

public class StrongBoxUnavailableException extends ProviderException {}
