import com.amazonaws.client.builder.AwsClientBuilder.EndpointConfiguration;
import com.amazonaws.services.s3.AmazonS3;
import com.amazonaws.services.s3.AmazonS3ClientBuilder;
import com.amazonaws.services.s3.model.CSVInput;
import com.amazonaws.services.s3.model.CSVOutput;
import com.amazonaws.services.s3.model.CompressionType;
import com.amazonaws.services.s3.model.ExpressionType;
import com.amazonaws.services.s3.model.InputSerialization;
import com.amazonaws.services.s3.model.OutputSerialization;
import com.amazonaws.services.s3.model.RequestProgress;
import com.amazonaws.services.s3.model.SelectObjectContentEvent;
import com.amazonaws.services.s3.model.SelectObjectContentEventVisitor;
import com.amazonaws.services.s3.model.SelectObjectContentRequest;
import java.io.InputStream;

/** Runs a select with the AWS SDK for Java: records go to stdout, other events to stderr. */
public class Select {
  public static void main(String[] words) throws Exception {
    AmazonS3 s3 =
        AmazonS3ClientBuilder.standard()
            .withEndpointConfiguration(new EndpointConfiguration(words[0], "us-east-1"))
            .withPathStyleAccessEnabled(true)
            .build();
    SelectObjectContentRequest request = new SelectObjectContentRequest();
    request.setBucketName(words[1]);
    request.setKey(words[2]);
    request.setExpression(words[3]);
    request.setExpressionType(ExpressionType.SQL);
    InputSerialization input = new InputSerialization();
    input.setCsv(new CSVInput());
    input.setCompressionType(CompressionType.NONE);
    request.setInputSerialization(input);
    OutputSerialization output = new OutputSerialization();
    output.setCsv(new CSVOutput());
    request.setOutputSerialization(output);
    RequestProgress progress = new RequestProgress();
    progress.setEnabled(true);
    request.setRequestProgress(progress);
    try (InputStream records =
        s3.selectObjectContent(request)
            .getPayload()
            .getRecordsInputStream(
                new SelectObjectContentEventVisitor() {
                  @Override
                  public void visit(SelectObjectContentEvent.StatsEvent event) {
                    System.err.println("scanned " + event.getDetails().getBytesScanned());
                  }

                  @Override
                  public void visit(SelectObjectContentEvent.EndEvent event) {
                    System.err.println("ended");
                  }
                })) {
      records.transferTo(System.out);
    }
    System.out.flush();
  }
}
