from django.http import HttpResponse
from django.urls import path

app_name = "jobs"
urlpatterns = [path("", lambda request: HttpResponse("jobs"), name="list")]
